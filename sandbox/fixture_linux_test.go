package sandbox

import "context"

func fixtures() map[string]func(args []string) int {
	return map[string]func(args []string) int{"dial": dialFixture, "hog": hogFixture, "serve-and-dial": serveAndDialFixture, "host": hostFixture, "nested": nestedFixture, "meddle": meddleFixture, "submount": submountFixture, "burn": burnFixture, "burners": burnersFixture, "hardened": hardenedFixture}
}

// ctxOfFixture is the context of a small program: it ends with the program.
func ctxOfFixture() context.Context { return context.Background() }
