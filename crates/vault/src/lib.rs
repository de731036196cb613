//! Sealing, keys and object stores. Plaintext cannot reach a store from here.
