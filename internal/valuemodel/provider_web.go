package valuemodel

import "time"

// webProviders returns the servers that search or fetch. What they are asked
// goes to whoever the arguments name, and a search is billed.
func webProviders() []Provider {
	return []Provider{{
		Name:    "fetch",
		Servers: []string{"mcp-fetch"},
		// Not every page leaves all as it was when it is asked for: a link may
		// unsubscribe.
		Tools: reading("fetch").worth(Supporting).abroad().unguessed().urlIn("url"),
	}, {
		Name:    "brave-search",
		Servers: []string{"brave-search-mcp-server", "example-servers/brave-search"},
		Host:    "api.search.brave.com",
		Tools: joined(
			reading("brave_web_search", "brave_local_search", "brave_news_search").worth(Supporting).abroad().unguessed(),
			reading("brave_image_search", "brave_video_search", "brave_summarizer").worth(Supporting).abroad().unguessed(),
		),
	}, {
		Name:    "tavily",
		Servers: []string{"tavily-mcp"},
		Host:    "api.tavily.com",
		Tools: joined(
			reading("tavily_search", "tavily_extract", "tavily_crawl", "tavily_map").worth(Supporting).abroad().unguessed(),
			reading("tavily-search", "tavily-extract", "tavily-crawl", "tavily-map").worth(Supporting).abroad().unguessed(),
		),
	}, {
		// Documentation of released versions, which changes by the day at most.
		Name:    "context7",
		Servers: []string{"context7"},
		Host:    "context7.com",
		Tools: joined(
			reading("resolve-library-id").worth(Supporting).fresh(5*time.Minute),
			reading("query-docs", "get-library-docs").worth(Critical).fresh(5*time.Minute),
		),
	}}
}
