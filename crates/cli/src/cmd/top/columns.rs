//! Tables as wide as the screen: columns that do not fit are omitted whole, the least important
//! first.

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// What stands above it.
    pub head: &'static str,
    /// How many characters it takes, with the space to its neighbour.
    pub width: usize,
    /// Its greatest width on a wide screen.
    pub most: usize,
    /// Words begin at the left, numbers end at the right.
    pub left: bool,
    /// 0: never omitted; else the highest is omitted first.
    pub rank: u8,
}

impl Column {
    /// Words.
    pub const fn words(head: &'static str, width: usize, most: usize, rank: u8) -> Self {
        Column { head, width, most, left: true, rank }
    }

    /// Numbers.
    pub const fn number(head: &'static str, width: usize, rank: u8) -> Self {
        Column { head, width, most: width, left: false, rank }
    }
}

/// The heading and the rows, each cell by its column.
pub fn table<'a, const N: usize>(
    columns: &[Column; N],
    rows: impl IntoIterator<Item = [String; N]> + 'a,
    width: usize,
) -> Vec<String> {
    let widths = widths(columns, width);
    let line = |cells: &[String; N]| -> String {
        let each = columns.iter().zip(&widths).zip(cells);
        let cell = |((column, width), text): ((&Column, &usize), &String)| {
            let text: String = text.chars().take(width.saturating_sub(1)).collect();
            if column.left { format!("{text:<width$}") } else { format!("{text:>width$}") }
        };
        each.filter(|((_, width), _)| **width > 0).map(cell).collect()
    };
    let heads = columns.map(|column| column.head.to_owned());
    std::iter::once(line(&heads)).chain(rows.into_iter().map(|row| line(&row))).collect()
}

/// How wide each is; 0: left out.
fn widths<const N: usize>(columns: &[Column; N], width: usize) -> [usize; N] {
    let mut widths = columns.map(|column| column.width);
    let all = |widths: &[usize; N]| widths.iter().sum::<usize>();
    while all(&widths) > width {
        let there = columns.iter().enumerate().filter(|(nth, column)| widths[*nth] > 0 && column.rank > 0);
        let Some((least, _)) = there.max_by_key(|(_, column)| column.rank) else { break };
        widths[least] = 0;
    }
    for (nth, column) in columns.iter().enumerate().filter(|(_, column)| column.most > column.width) {
        let room = width.saturating_sub(all(&widths));
        if widths[nth] > 0 {
            widths[nth] += room.min(column.most - column.width);
        }
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] =
        [Column::words("NAME", 6, 12, 0), Column::words("WHERE", 8, 8, 2), Column::number("COUNT", 7, 1)];

    fn row() -> [[String; 3]; 1] {
        [["somebody".into(), "here".into(), "12".into()]]
    }

    #[test]
    fn columns_are_omitted_whole_and_the_rest_widens() {
        assert_eq!(table(&COLUMNS, row(), 21), ["NAME  WHERE     COUNT", "someb here         12"]);
        assert_eq!(table(&COLUMNS, row(), 20), ["NAME          COUNT", "somebody         12"]);
        assert_eq!(table(&COLUMNS, row(), 13), ["NAME    COUNT", "someb      12"]);
        assert_eq!(table(&COLUMNS, row(), 12), ["NAME        ", "somebody    "]);
        assert_eq!(table(&COLUMNS, row(), 1), ["NAME  ", "someb "]);
    }
}
