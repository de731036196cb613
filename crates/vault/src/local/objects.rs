//! The [`ObjectStore`] of the local backend.

use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

use super::LocalStore;
use super::failure::unsupported;
use super::reader::{Page, Row};
use super::reserve::Frees;
use super::upload::LocalUpload;
use super::writer::Mode;

#[async_trait]
impl ObjectStore for LocalStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let mode = match options.mode {
            PutMode::Create => Mode::Create,
            PutMode::Overwrite => Mode::Overwrite,
            PutMode::Update(_) => return Err(unsupported("conditional update: objects are written once")),
        };
        let frees = options.extensions.get::<Frees>().is_some();
        let body = self.body(location, payload, frees).await?;
        self.put_body(location, body, mode, frees).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        _: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.writer()?;
        let (files, path) = (self.files.clone(), location.clone());
        let file = self.write_file(move || files.create_for(path.as_ref())).await?;
        Ok(Box::new(LocalUpload::new(location.to_string(), file, self)?))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let conditional = options.if_match.is_some()
            || options.if_none_match.is_some()
            || options.if_modified_since.is_some()
            || options.if_unmodified_since.is_some();
        if conditional || options.version.is_some() {
            return Err(unsupported("conditional reads: objects never change"));
        }
        let range = match &options.range {
            Some(range) => range.clone(),
            None => GetRange::Offset(0),
        };
        if options.head {
            let found = self.find(location, None, true).await?;
            let meta = meta(location.clone(), &found.row);
            return Ok(GetResult {
                payload: once(Bytes::new()),
                range: 0..0,
                meta,
                attributes: Default::default(),
            });
        }
        let found = self.find(location, options.range, false).await?;
        let start = match range {
            GetRange::Bounded(range) => range.start,
            GetRange::Offset(start) => start,
            GetRange::Suffix(length) => found.row.size.saturating_sub(length),
        };
        let range = start..start + found.bytes.len() as u64;
        let meta = meta(location.clone(), &found.row);
        Ok(GetResult { payload: once(found.bytes), range, meta, attributes: Default::default() })
    }

    async fn get_range(&self, location: &Path, range: std::ops::Range<u64>) -> object_store::Result<Bytes> {
        Ok(self.find(location, Some(GetRange::Bounded(range)), false).await?.bytes)
    }

    async fn delete(&self, location: &Path) -> object_store::Result<()> {
        self.writer()?.delete(vec![location.to_string()]).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.list_from(prefix, None)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.list_from(prefix, Some(offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        let depth = prefix.map_or(0, |p| p.parts().count());
        let mut found = ListResult { common_prefixes: Vec::new(), objects: Vec::new() };
        let mut below = self.list_from(prefix, None);
        while let Some(meta) = below.try_next().await? {
            if meta.location.parts().count() == depth + 1 {
                found.objects.push(meta);
                continue;
            }
            let common: Path = meta.location.parts().take(depth + 1).collect();
            if found.common_prefixes.last() != Some(&common) {
                found.common_prefixes.push(common);
            }
        }
        Ok(found)
    }

    async fn copy(&self, from: &Path, to: &Path) -> object_store::Result<()> {
        self.duplicate(from, to, Mode::Overwrite).await
    }

    async fn copy_if_not_exists(&self, from: &Path, to: &Path) -> object_store::Result<()> {
        self.duplicate(from, to, Mode::Create).await
    }
}

impl LocalStore {
    /// Objects below `prefix` and after `offset`, read a page at a time.
    fn list_from(
        &self,
        prefix: Option<&Path>,
        offset: Option<&Path>,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let readers = self.readers.clone();
        let (low, high) = match prefix.map(AsRef::<str>::as_ref) {
            // '0' is the character after '/': everything below the prefix, as whole segments, is
            // between the two.
            Some(prefix) if !prefix.is_empty() => (format!("{prefix}/"), Some(format!("{prefix}0"))),
            _ => (String::new(), None),
        };
        let after = offset.map_or("", AsRef::as_ref).max(&low).to_owned();
        let pages = stream::try_unfold(Some(after), move |after| {
            let (readers, high) = (readers.clone(), high.clone());
            async move {
                let Some(after) = after else { return Ok(None) };
                let Page { rows, more } = readers.list(after, high).await?;
                let next = more.then(|| rows.last().map(|(path, _)| path.clone())).flatten();
                Ok::<_, object_store::Error>(Some((rows, next)))
            }
        });
        let (unsound, now) = (self.unsound.clone(), self.clock.now());
        let listed = move |(path, mut row): (String, Row)| {
            // A time in the future cannot be right, and would keep the object from being removed
            // when it is old.
            row.modified = row.modified.min(now);
            let location =
                Path::parse(&path).map_err(|_| unsound.found(format!("{path:?} is no path"))).ok()?;
            Some(Ok(meta(location, &row)))
        };
        pages
            .map_ok(move |rows| stream::iter(rows.into_iter().filter_map(listed.clone()).collect::<Vec<_>>()))
            .try_flatten()
            .boxed()
    }
}

/// The end of the year 9999, in milliseconds since 1970: there is no later date.
const LATEST_MS: u64 = 253_402_300_799_000;

fn meta(location: Path, row: &Row) -> ObjectMeta {
    let modified = u64::try_from(row.modified.0).unwrap_or(0).min(LATEST_MS);
    let modified = UNIX_EPOCH + Duration::from_millis(modified);
    ObjectMeta { location, last_modified: modified.into(), size: row.size, e_tag: None, version: None }
}

fn once(bytes: Bytes) -> GetResultPayload {
    GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed())
}
