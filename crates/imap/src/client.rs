//! The client side: responses as they stream.
