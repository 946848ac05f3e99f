module example/tools

go 1.26.0
