//! What a user may write: the kinds of `heapfleet.dev`, as types with their schema. No behaviour.
