package lab

// OnThread is for the tests.
var OnThread = onThread
