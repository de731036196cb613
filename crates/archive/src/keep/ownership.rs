//! Whose copy it is: messages of another account are not put into it, and do not put its folders aside.

use sealpost_base::{Error, Result};

use super::{Copy, Source};

/// Makes sure that `copy` is of `source`'s mail, and says so in it unless it is only looked at. A copy that nobody has claimed, or that has
/// no folders, is anybody's; `moved`: the same mailbox had another name.
///
/// # Errors
/// `Conflict` if it is of another account; what the copy says.
pub(crate) fn claim(copy: &dyn Copy, source: &Source, moved: bool, look: bool) -> Result<()> {
    let owner = copy.source()?;
    if owner.as_ref() == Some(source) {
        return Ok(());
    }
    if let Some(owner) = owner.filter(|_| !moved)
        && !copy.folders()?.is_empty()
    {
        return Err(Error::conflict(format!(
            "the copy is of the mail of {owner}, and not of {source}: name another directory for it, or, if the same mailbox has a new \
             name, `archive pull --moved` once"
        )));
    }
    if look { Ok(()) } else { copy.set_source(source) }
}
