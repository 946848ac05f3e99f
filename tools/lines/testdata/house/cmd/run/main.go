// Command run is small.
package main

func main() {
	println("no exported names, one function of three lines")
}
