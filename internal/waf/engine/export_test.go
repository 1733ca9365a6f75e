package engine

// Stock is a set with Coraza's own operators: it is built before this package's init registers others.
var Stock, ErrStock = NewStock()
