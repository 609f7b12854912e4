// A target with headers to compile ahead needs a source.
