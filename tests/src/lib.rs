//! Helpers of the end-to-end cases: processes that end with the test, temporary folders, small HTTP clients.
