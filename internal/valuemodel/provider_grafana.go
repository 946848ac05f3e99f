package valuemodel

import "time"

// grafanaProviders returns Grafana's server. Installations have hosts of their
// own; queries ask for what is measured at this moment. A dashboard is named by
// the uid beside its body or in it: no edge is matched.
func grafanaProviders() []Provider {
	boards, alerts, incidents := grafanaBoards(), grafanaAlerts(), grafanaIncidents()
	sources, queries := grafanaSources(), grafanaQueries()
	sift := reading("list_sift_investigations", "get_sift_investigation", "get_sift_analysis").worth(Supporting).live()
	docs := grafanaDocs()
	reads := joined(boards, alerts, incidents, sources, queries, sift)
	everything := stale(names(reads)...)
	return []Provider{{
		Name:    "grafana",
		Servers: []string{"mcp-grafana"},
		Tools: joined(reads, docs,
			// These read or write, by an argument.
			unsure("alerting_manage_rules", "alerting_manage_silences").stales(stale(names(alerts, incidents, boards)...)),
			unsure("grafana_api_request").stales(everything),
			unsure("generate_deeplink"), // may store a short link

			writingThere("update_dashboard", "create_folder").stales(stale(names(boards, alerts, sources)...)),
			writingThere("create_snapshot", "delete_snapshot").stales(stale(names(boards)...)),
			writingThere("create_annotation", "update_annotation", "delete_annotation").stales(stale(names(boards)...)),
			writingThere("create_datasource", "update_datasource", "install_plugin").stales(everything),
			writingThere("create_incident", "update_incident", "add_activity_to_incident").stales(stale(names(incidents, alerts, boards)...)),
			writingThere("update_alert_group").stales(stale(names(alerts, incidents)...)),
			writingThere("find_error_pattern_logs", "find_slow_requests").stales(stale(names(sift)...)), // begin an investigation
		),
	}}
}

func grafanaBoards() toolTable {
	return joined(
		reading("get_dashboard_by_uid", "get_dashboard_summary", "get_dashboard_property", "get_dashboard_panel_queries").worth(Critical),
		reading("search_dashboards", "search_folders", "list_dashboard_versions").worth(Supporting),
		reading("list_snapshots", "get_snapshot", "get_annotation_tags").worth(Supporting),
		reading("get_annotations").worth(Supporting).live(),             // alerts leave some
		reading("get_panel_image").worth(Supporting).live().unguessed(), // a browser renders it
		reading("user_info").worth(Optional),
	)
}

func grafanaAlerts() toolTable {
	return joined(
		// Manages nothing: all its operations read, some of them the secrets of who is told.
		reading("alerting_manage_routing").worth(Supporting).unguessed(),
		reading("list_alert_groups", "get_alert_group", "get_assertions").worth(Supporting).live(),
		reading("get_current_oncall_users").worth(Supporting).live(),
		reading("list_oncall_schedules", "list_oncall_teams", "list_oncall_users", "get_oncall_shift").worth(Optional),
	)
}

func grafanaIncidents() toolTable {
	return joined(
		reading("list_incidents", "get_incident").worth(Supporting).live(),
		reading("list_incident_custom_fields").worth(Optional),
	)
}

func grafanaSources() toolTable {
	return joined(
		reading("list_datasources", "get_plugin").worth(Supporting),
		reading("get_datasource").worth(Supporting).unguessed(), // and how to log in there
		reading("check_datasources_health").live().unguessed(),  // asks each of them
		reading("list_provisioning_repositories").worth(Optional).live(),
		reading("validate_provisioning_file").worth(Optional).live().unguessed(), // a dry run of all of it
	)
}

func grafanaQueries() toolTable {
	return joined(
		reading("query_prometheus", "query_prometheus_histogram", "query_loki_logs", "query_loki_patterns").worth(Critical).live(),
		reading("query_loki_stats", "query_pyroscope", "query_tempo_metrics", "search_tempo_traces").worth(Critical).live(),
		reading("get_tempo_trace", "diff_tempo_traces").worth(Critical).live(), // spans come in late
		reading("analyze_loki_labels").worth(Supporting).live(),
		reading("list_prometheus_metric_names", "list_prometheus_metric_metadata").worth(Supporting),
		reading("list_prometheus_label_names", "list_prometheus_label_values").worth(Supporting),
		reading("list_loki_label_names", "list_loki_label_values").worth(Supporting),
		reading("list_tempo_attribute_names", "list_tempo_attribute_values").worth(Supporting),
		reading("list_pyroscope_label_names", "list_pyroscope_label_values", "list_pyroscope_profile_types").worth(Supporting),
	)
}

// grafanaDocs change with a release at most; some of them ask Grafana's own site,
// which is not the installation.
func grafanaDocs() toolTable {
	return joined(
		reading("search_docs", "search_plugin_information").worth(Supporting).abroad().host("grafana.com").fresh(5*time.Minute),
		reading("get_doc").worth(Critical).abroad().urlIn("url").host("grafana.com").fresh(5*time.Minute),
		reading("get_tempo_traceql_docs", "suggest_loki_alloy_label_config").worth(Supporting).fresh(5*time.Minute),
	)
}
