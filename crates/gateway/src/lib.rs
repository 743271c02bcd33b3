//! The built-in HTTP gateway: one more mouth of the router.
