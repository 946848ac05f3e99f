package proxy

import "net/http"

// page is what the HTTP end serves beside MCP.
type page struct {
	pattern string
	handler http.Handler
	asks    bool // for the token itself, as browsers need it
}

// Mount serves something beside MCP, at a pattern of [http.ServeMux]. Like everything
// it needs the token, unless the handler asks for that itself; Host and Origin are
// checked in any case. It is to be called before the server serves.
func (s *Server) Mount(pattern string, h http.Handler, asks bool) {
	s.pages = append(s.pages, page{pattern, h, asks})
}
