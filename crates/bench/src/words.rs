//! Natural-looking text: common English words drawn with Zipf-like frequencies, in sentences.

use sealpost_base::SeededRandom;

// prose: off
const WORDS: &str = "the of and to a in that is was for it with as his on be at by had this not but from have are which you \
were they one all we her would there their will when who him been has more if no out so said what up its about into than \
them can only other new some could time these two may then do first any my now such like our over man me even most made \
after also did many before must through back years where much your way well down should because each just those people \
how too little state good very make world still own see men work long get here between both life being under never day \
same another know while last might us great old year off come since against go came right used take three meeting \
project report invoice schedule attached please regards thanks update review question answer customer order delivery \
contract budget quarter number version server release account department manager team office address telephone travel \
ticket booking flight hotel conference agenda minutes draft proposal summary estimate payment transfer balance receipt \
available possible important several different public general system program service product market company business \
problem change result example interest group member national local development information experience education \
research community process policy control economic social political history government school student house family \
weather garden kitchen window street morning evening weekend holiday birthday dinner coffee train station river mountain \
letter paper picture music story language reason moment period section support management operation production \
technical practical personal financial medical legal original additional particular necessary recent current final \
follow continue include consider provide require receive expect remember understand believe decide discuss confirm \
cancel postpone arrange prepare deliver install configure measure compare improve reduce increase collect publish \
yesterday tomorrow Monday Tuesday Wednesday Thursday Friday January February March April September October November \
Berlin London Paris Madrid Vienna Zürich Kraków café résumé naïve Grüße année señor façade";

/// A word that [`sentence`] never generates; tests of search add it.
pub const RARE: &str = "zephyrine";

/// One sentence, about ten words.
pub fn sentence(random: &SeededRandom, words: &[&str]) -> String {
    let mut text = String::new();
    for nth in 0..5 + random.below(12) {
        // The product of two uniform draws favours the front of the list, as real text does.
        let (a, b) = (random.below(1000), random.below(1000));
        let word = words[usize::try_from(a * b).unwrap_or(0) * words.len() / 1_000_000];
        match nth {
            0 => {
                let mut letters = word.chars();
                text.extend(letters.next().map(|c| c.to_uppercase().to_string()));
                text.push_str(letters.as_str());
            }
            _ => {
                text.push_str(if random.below(12) == 0 { ", " } else { " " });
                text.push_str(word);
            }
        }
    }
    text.push('.');
    text
}

/// The word list.
pub fn list() -> Vec<&'static str> {
    WORDS.split_whitespace().collect()
}

/// A word that many generated messages contain, chosen by `draw`.
pub fn frequent(draw: u32) -> &'static str {
    const FREQUENT: [&str; 12] = [
        "meeting", "project", "report", "invoice", "schedule", "attached", "thanks", "update", "review",
        "customer", "order", "contract",
    ];
    FREQUENT[draw as usize % FREQUENT.len()]
}
