package main

// program stands for what a model answered when it was asked for a program: it
// does its work, and tries what it should not.
const program = `package main

import (
	"fmt"
	"net"
	"os"
	"time"
)

func main() {
	if os.Args[1] == "spin" {
		for {
		}
	}
	n := 0
next:
	for i := 2; i < 1000; i++ {
		for j := 2; j*j <= i; j++ {
			if i%j == 0 {
				continue next
			}
		}
		n++
	}
	fmt.Println("there are", n, "primes below 1000")
	if err := os.WriteFile(os.Args[1], []byte("I was here"), 0o644); err != nil {
		fmt.Println("could not write outside:", err)
	}
	c, err := net.DialTimeout("tcp", os.Args[2], 2*time.Second)
	if err != nil {
		fmt.Println("could not dial:", err)
		return
	}
	c.Close()
}
`
