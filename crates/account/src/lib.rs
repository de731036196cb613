//! Events, the pure apply function, account state, operations and views.
