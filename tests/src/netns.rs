//! Network namespaces of the test's own, joined by a pair of virtual interfaces.
