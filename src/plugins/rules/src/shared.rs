//! Maps whose copies share their entries: a macro such as `exists` copies each element that it
//! visits, and the copy of a map with the members of a mount costs more than most conditions.

use cel::common::{
    traits::{Container, Indexer, Iterable, Sizer, Zeroer},
    types::{CelMap, Type},
    value::{Builtin, BuiltinRef, Val},
};
use std::sync::Arc;

/// A map of the interpreter that is cheap to copy.
#[derive(Debug, Clone)]
pub(crate) struct SharedMap<'v>(Arc<CelMap<'v>>);

impl<'v> From<CelMap<'v>> for SharedMap<'v> {
    fn from(map: CelMap<'v>) -> Self {
        Self(Arc::new(map))
    }
}

impl Val for SharedMap<'_> {
    fn get_type(&self) -> &Type {
        self.0.get_type()
    }

    fn cel_type() -> &'static Type {
        CelMap::cel_type()
    }

    fn as_container(&self) -> Option<&dyn Container> {
        self.0.as_container()
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        self.0.as_indexer()
    }

    fn into_indexer<'v>(self: Box<Self>) -> Option<Box<dyn Indexer + 'v>>
    where
        Self: 'v,
    {
        Box::new(Arc::unwrap_or_clone(self.0)).into_indexer()
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        self.0.as_iterable()
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        self.0.as_sizer()
    }

    fn as_zeroer(&self) -> Option<&dyn Zeroer> {
        self.0.as_zeroer()
    }

    fn equals(&self, other: &dyn Val) -> bool {
        self.0.equals(other)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    // With these two, the interpreter compares and converts it as its own map. They are hidden in
    // the documentation of the crate, and a later version may have more such methods, so Cargo.toml
    // has an exact version.
    fn as_builtin<'b, 'v>(&'b self) -> BuiltinRef<'b, 'v>
    where
        Self: 'v,
    {
        BuiltinRef::Map(&self.0)
    }

    fn into_builtin<'v>(self: Box<Self>) -> Option<Builtin<'v>>
    where
        Self: 'v,
    {
        Some(Builtin::Map(Arc::unwrap_or_clone(self.0)))
    }
}
