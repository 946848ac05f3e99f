// Command gauge is a tool.
package main

func main() {}
