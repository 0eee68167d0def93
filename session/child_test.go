package session_test

func child(string) {}
