package proxy

var (
	RenderInParts = render
	Reduce        = reduce
)
