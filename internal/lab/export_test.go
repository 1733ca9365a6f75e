package lab

// OnThread exports onThread for the tests.
var OnThread = onThread
