package valuemodel

var Providers = providers
