//! The macro that makes a data type: a struct of which any properties may be absent, the enum of
//! its properties, and how the object is read in /set.

use crate::error::SetError;
use crate::read::Mismatch;

/// Of a property, who may give it a value and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The client, at any time.
    Settable,
    /// The client, when it creates the object.
    Immutable,
    /// The server alone.
    ServerSet,
}

/// `invalidProperties` for all that is wrong; `None` if nothing is.
pub(crate) fn all_wrong(wrong: &[Mismatch]) -> Option<SetError> {
    if wrong.is_empty() {
        return None;
    }
    let mut names: Vec<String> = Vec::new();
    for name in wrong.iter().map(Mismatch::argument) {
        if !names.iter().any(|other| other == name) {
            names.push(name.to_owned());
        }
    }
    // The first few say enough for a developer.
    let reasons: Vec<String> = wrong.iter().take(5).map(Mismatch::to_string).collect();
    Some(SetError::invalid_properties(names, reasons.join("; ")))
}

/// A data type with its properties. After each field come the variant of the property, its name on
/// the wire and its [`Access`], with the default that null restores if it is not null itself:
/// `[settable]`, `[settable default VALUE]`, `[immutable]`, `[server_set]`.
macro_rules! data_type {
    (
        $(#[$meta:meta])*
        pub struct $type:ident, $property:ident {
            $($(#[$doc:meta])* $field:ident: $of:ty = $variant:ident $name:literal $kind:tt,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $type {
            $($(#[$doc])* pub $field: Option<$of>,)*
        }

        $crate::read::string_enum! {
            #[doc = concat!("A property of [`", stringify!($type), "`].")]
            pub enum $property {
                $($(#[$doc])* $variant = $name,)*
            }
        }

        impl $property {
            /// Who may set it.
            pub fn access(self) -> $crate::data_type::Access {
                match self { $($property::$variant => $crate::data_type::access!($kind),)* }
            }
        }

        impl $type {
            /// Takes the properties of this type out of an object, and leaves the others.
            /// Those of the wrong type are added to `wrong`.
            pub(crate) fn take(
                fields: &mut $crate::read::Fields,
                wrong: &mut Vec<$crate::read::Mismatch>,
            ) -> Self {
                $(let $field = fields.present::<$of>($name).unwrap_or_else(|mismatch| {
                    wrong.push(mismatch);
                    None
                });)*
                $type { $($field,)* }
            }

            /// Writes the properties that there are.
            pub(crate) fn write<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $(if let Some(value) = &self.$field {
                    map.serialize_entry($name, value)?;
                })*
                Ok(())
            }

            /// Keeps only some properties.
            pub fn select(&mut self, wanted: &[$property]) {
                $(if !wanted.contains(&$property::$variant) {
                    self.$field = None;
                })*
            }

            /// The object that a client creates. Properties of the wrong type, unknown ones and
            /// those that only the server sets are `invalidProperties`, all of them together.
            pub fn for_create(object: $crate::standard::ObjectMap) -> Result<Self, $crate::error::SetError> {
                let mut fields = $crate::read::Fields::from(object);
                let mut wrong = Vec::new();
                let created = Self::take(&mut fields, &mut wrong);
                $(if created.$field.is_some() && $crate::data_type::access!($kind) == $crate::data_type::Access::ServerSet {
                    wrong.push($crate::read::Mismatch::because("set by the server alone").within($name));
                })*
                while let Some((name, _)) = fields.pop() {
                    wrong.push($crate::read::Mismatch::because("unknown property").within(&name));
                }
                match $crate::data_type::all_wrong(&wrong) {
                    Some(error) => Err(error),
                    None => Ok(created),
                }
            }

            /// The properties that a patch sets; null is the default of a property that has one.
            /// Those a client may not change are among them: compare with [`Self::conflicts`].
            pub fn for_update(patch: $crate::patch::PatchObject) -> Result<Self, $crate::error::SetError> {
                let mut members = serde_json::Map::new();
                let mut changed = Self::default();
                for (name, patch) in patch.properties() {
                    match (patch, $property::from_name(&name)) {
                        $(($crate::patch::PropertyPatch::Replace(serde_json::Value::Null), Some($property::$variant))
                            if $crate::data_type::default_of!($of, $kind).is_some() =>
                        {
                            changed.$field = $crate::data_type::default_of!($of, $kind);
                        })*
                        ($crate::patch::PropertyPatch::Replace(value), _) => {
                            members.insert(name, value);
                        }
                        ($crate::patch::PropertyPatch::Members(_), _) => {
                            let error = $crate::error::SetError::from($crate::error::SetErrorType::InvalidPatch);
                            let name = $crate::read::shortened(&name);
                            return Err(error.describe(format!("{name} is only replaced as a whole")));
                        }
                    }
                }
                let mut fields = $crate::read::Fields::from(members);
                let mut wrong = Vec::new();
                let read = Self::take(&mut fields, &mut wrong);
                while let Some((name, _)) = fields.pop() {
                    wrong.push($crate::read::Mismatch::because("unknown property").within(&name));
                }
                if let Some(error) = $crate::data_type::all_wrong(&wrong) {
                    return Err(error);
                }
                $(changed.$field = changed.$field.or(read.$field);)*
                Ok(changed)
            }

            /// Names of the properties here that a client may not change and that are not as they
            /// are in `current`: with any, an update is `invalidProperties` (RFC 8620 §5.3).
            pub fn conflicts(&self, current: &Self) -> Vec<String> {
                let mut names = Vec::new();
                $(if $crate::data_type::access!($kind) != $crate::data_type::Access::Settable
                    && self.$field.is_some()
                    && self.$field != current.$field
                {
                    names.push($name.to_owned());
                })*
                names
            }
        }

        impl $crate::read::FromJson for $type {
            fn expected() -> String {
                concat!("an object (", stringify!($type), ")").into()
            }

            fn from_json(value: serde_json::Value) -> Result<Self, $crate::read::Mismatch> {
                let serde_json::Value::Object(members) = value else {
                    return Err($crate::read::Mismatch::new(Self::expected(), &value));
                };
                let mut fields = $crate::read::Fields::from(members);
                let mut wrong = Vec::new();
                let read = Self::take(&mut fields, &mut wrong);
                match wrong.into_iter().next() {
                    Some(wrong) => Err(wrong),
                    None => fields.finish().map(|()| read),
                }
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                self.write(&mut map)?;
                serde::ser::SerializeMap::end(map)
            }
        }
    };
}

macro_rules! access {
    ([settable $($rest:tt)*]) => {
        $crate::data_type::Access::Settable
    };
    ([immutable $($rest:tt)*]) => {
        $crate::data_type::Access::Immutable
    };
    ([server_set]) => {
        $crate::data_type::Access::ServerSet
    };
}

macro_rules! default_of {
    ($of:ty, [$access:ident default $value:expr]) => {
        Option::<$of>::Some($value)
    };
    ($of:ty, $kind:tt) => {
        Option::<$of>::None
    };
}

pub(crate) use {access, data_type, default_of};
