//! Where objects are kept: a trait.

use super::StoreError;

/// One object of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// Whole objects by name. A name is words between single slashes, none of which begins with a dot.
///
/// Stores are shared: many threads and processes may use one at once.
pub trait ObjectStore: Send + Sync {
    /// Stores the parts, one after the other, as one object, in place of an older one. Readers see the older or the newer
    /// one, whole; once this returns the newer one stays, whatever happens to the machine's power.
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<(), StoreError>;

    /// Puts several objects, each a name with its parts. They become visible one by one; all of them stay once this returns.
    /// It takes less time than putting one after the other where a store can wait for all at once.
    fn put_all(&self, objects: &[(String, Vec<&[u8]>)]) -> Result<(), StoreError> {
        objects.iter().try_for_each(|(name, parts)| self.put(name, parts))
    }

    /// The object's bytes; nothing where there is no such object.
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// The objects whose names begin with `prefix`, by name.
    fn list(&self, prefix: &str) -> Result<Vec<Object>, StoreError>;

    /// Deletes objects and leftovers, for good once this returns. What isn't there is deleted already.
    fn delete(&self, names: &[&str]) -> Result<(), StoreError>;

    /// What interrupted [`put`](Self::put)s have left below `prefix`, by names that [`delete`](Self::delete) takes: each
    /// begins like the object that it was to become, up to the last slash. Those of a put that is under way are among
    /// them.
    fn leftovers(&self, prefix: &str) -> Result<Vec<String>, StoreError>;

    /// Where people find an object, for messages.
    fn place(&self, name: &str) -> String;
}

impl<S: ObjectStore + ?Sized> ObjectStore for std::sync::Arc<S> {
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<(), StoreError> {
        (**self).put(name, parts)
    }

    fn put_all(&self, objects: &[(String, Vec<&[u8]>)]) -> Result<(), StoreError> {
        (**self).put_all(objects)
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        (**self).get(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>, StoreError> {
        (**self).list(prefix)
    }

    fn delete(&self, names: &[&str]) -> Result<(), StoreError> {
        (**self).delete(names)
    }

    fn leftovers(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        (**self).leftovers(prefix)
    }

    fn place(&self, name: &str) -> String {
        (**self).place(name)
    }
}
