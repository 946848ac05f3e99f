package valuemodel

// browserProviders returns the servers that drive a browser. Every call depends
// on the page that those before it left behind, and looking changes it too: a
// snapshot gives the elements new numbers, a page scrolls into view.
func browserProviders() []Provider {
	return []Provider{{
		Name:     "playwright",
		Servers:  []string{"playwright"},
		Stateful: true,
		Tools: joined(
			unsure("browser_snapshot", "browser_find", "browser_take_screenshot", "browser_wait_for"),
			unsure("browser_console_messages", "browser_network_requests", "browser_network_request"),
			unsure("browser_tabs", "browser_run_code_unsafe", "browser_evaluate"),
			writingHere("browser_close", "browser_resize", "browser_emulate_media", "browser_hover"),
			writingThere("browser_navigate", "browser_navigate_back", "browser_handle_dialog"),
			writingThere("browser_click", "browser_drag", "browser_drop", "browser_file_upload"),
			writingThere("browser_fill_form", "browser_press_key", "browser_select_option", "browser_type"),
		),
	}, {
		Name:     "chrome-devtools",
		Servers:  []string{"chrome_devtools"},
		Stateful: true,
		Tools: joined(
			unsure("list_pages", "select_page", "wait_for", "take_snapshot", "take_screenshot"),
			unsure("list_console_messages", "get_console_message", "list_network_requests", "get_network_request"),
			unsure("get_css_styles", "performance_analyze_insight", "evaluate_script"),
			writingHere("close_page", "emulate", "resize_page", "hover"),
			writingHere("screencast_start", "screencast_stop", "take_heapsnapshot"),
			writingHere("performance_start_trace", "performance_stop_trace", "lighthouse_audit"),
			writingThere("navigate_page", "new_page", "handle_dialog", "upload_file"),
			writingThere("click", "drag", "fill", "fill_form", "press_key", "type_text"),
		),
	}}
}
