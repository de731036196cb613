//! The macro that makes a struct of an object on the wire: its reader and its writer from one list
//! of fields.

/// A struct that is read from and written as a JSON object. After each field come its name on the
/// wire and what its absence means:
///
/// - `[required]`: it must be there;
/// - `[nullable]`: an `Option`; absent or null is `None`, which is written as null;
/// - `[optional]`: an `Option`; absent or null is `None`, which is not written;
/// - `[default VALUE]`: absent is that value, which is not written; null is refused;
/// - `[always VALUE]`: absent is that value; it is always written, as clients may look for it;
/// - `[null_if_empty]`: a collection; absent or null is empty, which is written as null;
/// - `[or_empty]`: a collection; absent or null is empty, which is written as it is;
/// - `[skip_if_empty]`: a collection; absent or null is empty, which is not written.
macro_rules! object {
    (
        $(#[$meta:meta])*
        pub struct $type:ident $(<$($generic:ident),*>)? {
            $($(#[$doc:meta])* $field:ident: $of:ty = $name:literal $kind:tt,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $type $(<$($generic),*>)? {
            $($(#[$doc])* pub $field: $of,)*
        }

        impl $(<$($generic: $crate::read::FromJson),*>)? $type $(<$($generic),*>)? {
            /// Takes the fields of this type out of an object, and leaves the others.
            pub fn read(fields: &mut $crate::read::Fields) -> Result<Self, $crate::read::Mismatch> {
                Ok($type { $($field: $crate::object::read_field!(fields, $name, $kind),)* })
            }
        }

        impl $(<$($generic: $crate::read::FromJson),*>)? $crate::read::FromJson for $type $(<$($generic),*>)? {
            fn expected() -> String {
                concat!("an object (", stringify!($type), ")").into()
            }

            fn from_json(value: serde_json::Value) -> Result<Self, $crate::read::Mismatch> {
                let serde_json::Value::Object(members) = value else {
                    return Err($crate::read::Mismatch::new(Self::expected(), &value));
                };
                let mut fields = $crate::read::Fields::from(members);
                let read = Self::read(&mut fields)?;
                fields.finish()?;
                Ok(read)
            }
        }

        impl $(<$($generic: serde::Serialize),*>)? serde::Serialize for $type $(<$($generic),*>)? {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                $($crate::object::write_field!(map, $name, &self.$field, $kind);)*
                serde::ser::SerializeMap::end(map)
            }
        }
    };
}

macro_rules! read_field {
    ($fields:ident, $name:literal, [required]) => {
        $fields.required($name)?
    };
    ($fields:ident, $name:literal, [nullable]) => {
        $fields.optional($name)?
    };
    ($fields:ident, $name:literal, [optional]) => {
        $fields.optional($name)?
    };
    ($fields:ident, $name:literal, [default $value:expr]) => {
        $fields.defaulted($name, $value)?
    };
    ($fields:ident, $name:literal, [always $value:expr]) => {
        $fields.defaulted($name, $value)?
    };
    ($fields:ident, $name:literal, [null_if_empty]) => {
        $fields.optional($name)?.unwrap_or_default()
    };
    ($fields:ident, $name:literal, [or_empty]) => {
        $fields.optional($name)?.unwrap_or_default()
    };
    ($fields:ident, $name:literal, [skip_if_empty]) => {
        $fields.optional($name)?.unwrap_or_default()
    };
}

macro_rules! write_field {
    ($map:ident, $name:literal, $value:expr, [required]) => {
        serde::ser::SerializeMap::serialize_entry(&mut $map, $name, $value)?
    };
    ($map:ident, $name:literal, $value:expr, [or_empty]) => {
        serde::ser::SerializeMap::serialize_entry(&mut $map, $name, $value)?
    };
    ($map:ident, $name:literal, $value:expr, [nullable]) => {
        serde::ser::SerializeMap::serialize_entry(&mut $map, $name, $value)?
    };
    ($map:ident, $name:literal, $value:expr, [optional]) => {
        if let Some(value) = $value {
            serde::ser::SerializeMap::serialize_entry(&mut $map, $name, value)?;
        }
    };
    ($map:ident, $name:literal, $value:expr, [default $default:expr]) => {
        if *$value != $default {
            serde::ser::SerializeMap::serialize_entry(&mut $map, $name, $value)?;
        }
    };
    ($map:ident, $name:literal, $value:expr, [always $default:expr]) => {
        serde::ser::SerializeMap::serialize_entry(&mut $map, $name, $value)?
    };
    ($map:ident, $name:literal, $value:expr, [null_if_empty]) => {
        let value = Some($value).filter(|value| !value.is_empty());
        serde::ser::SerializeMap::serialize_entry(&mut $map, $name, &value)?
    };
    ($map:ident, $name:literal, $value:expr, [skip_if_empty]) => {
        if !$value.is_empty() {
            serde::ser::SerializeMap::serialize_entry(&mut $map, $name, $value)?;
        }
    };
}

pub(crate) use {object, read_field, write_field};
