package sandbox

func fixtures() map[string]func(args []string) int {
	return map[string]func(args []string) int{"dial": dialFixture, "hog": hogFixture, "serve-and-dial": serveAndDialFixture, "host": hostFixture}
}
