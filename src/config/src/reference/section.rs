//! Macros with which a setting is described where it is declared: its doc comment is the text of
//! the reference. A table, a key or a value without a doc comment does not compile, nor does a
//! table of [`Config`](crate::Config) whose type is not declared by `section!`.

use super::types::SectionDescription;
use std::collections::BTreeMap;

/// The type of a table of the file.
pub(crate) trait Section {
    /// Adds the description of the table, and then of the tables in it.
    fn describe(sections: &mut Vec<&'static SectionDescription>);
}

impl<T: Section> Section for Vec<T> {
    fn describe(sections: &mut Vec<&'static SectionDescription>) {
        T::describe(sections);
    }
}

impl<T: Section> Section for BTreeMap<String, T> {
    fn describe(sections: &mut Vec<&'static SectionDescription>) {
        T::describe(sections);
    }
}

/// Declares the type of a table of the file: `#[section(HEADER, TITLE)]`, then its keys, then the
/// tables in it. A key has `#[key(KIND, DEFAULT, EXAMPLE)]`, with a [`KeyKind`], a [`DefaultValue`]
/// and TOML, and its name at the end if that is not the name of the field. If the fields of keys
/// have values (`= VALUE`), these are their values in `Default`.
///
/// [`KeyKind`]: crate::KeyKind
/// [`DefaultValue`]: crate::DefaultValue
macro_rules! section {
    (
        $(#[doc = $text:literal])+
        #[section($header:literal, $title:literal)]
        $(#[$attribute:meta])*
        pub struct $type:ident {
            $(
                $(#[doc = $key_text:literal])+
                #[key($kind:expr, $default:expr, $example:literal $(, $name:literal)?)]
                $(#[$key_attribute:meta])*
                pub $key:ident: $key_type:ty $(= $value:expr)?,
            )*
            $(tables {
                $(
                    $(#[$table_attribute:meta])*
                    $table:ident: $table_type:ty,
                )*
            })?
        }
    ) => {
        $(#[doc = $text])+
        $(#[$attribute])*
        pub struct $type {
            $(
                $(#[doc = $key_text])+
                $(#[$key_attribute])*
                pub $key: $key_type,
            )*
            $($(
                /// The table of this name.
                $(#[$table_attribute])*
                pub $table: $table_type,
            )*)?
        }

        impl $crate::reference::Section for $type {
            fn describe(sections: &mut Vec<&'static $crate::SectionDescription>) {
                use $crate::{DefaultValue::*, KeyKind::*};
                static SECTION: $crate::SectionDescription = $crate::SectionDescription {
                    header: $header,
                    title: $title,
                    text: concat!($($text),+),
                    keys: &[$($crate::KeyDescription {
                        name: section!(@name $key $($name)?),
                        kind: $kind,
                        default: $default,
                        example: $example,
                        text: concat!($($key_text),+),
                    }),*],
                };
                sections.push(&SECTION);
                $($(<$table_type as $crate::reference::Section>::describe(sections);)*)?
            }
        }

        section!(@default $type { $($key $(= $value)?,)* } { $($($table,)*)? });
    };
    (@name $key:ident) => { stringify!($key) };
    (@name $key:ident $name:literal) => { $name };
    (@default $type:ident { $($key:ident,)* } { $($table:ident,)* }) => {};
    (@default $type:ident { $($key:ident = $value:expr,)* } { $($table:ident,)* }) => {
        impl Default for $type {
            fn default() -> Self {
                Self { $($key: $value,)* $($table: Default::default(),)* }
            }
        }
    };
}

/// Declares the type of a key that has one of several texts. The first is the default.
macro_rules! choices {
    (
        $(#[$attribute:meta])*
        pub enum $type:ident {
            $($(#[doc = $effect:literal])+ $choice:ident = $name:literal,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
        pub enum $type {
            $($(#[doc = $effect])+ #[serde(rename = $name)] $choice,)+
        }

        impl $type {
            /// Each text with its effect.
            pub(crate) const CHOICES: &[(&str, &str)] =
                &[$(($name, concat!($($effect),+))),+];
        }

        impl Default for $type {
            fn default() -> Self {
                [$(Self::$choice),+][0]
            }
        }
    };
}

pub(crate) use {choices, section};
