package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// vendor is a model server on loopback that speaks Chat Completions, so that the
// program needs neither a key nor a network. The first of its two addresses is
// down; the other answers with the question in capitals.
type vendor struct {
	server *http.Server
	url    string
}

func startVendor() (*vendor, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /down/v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"overloaded"}}`, http.StatusServiceUnavailable)
	})
	mux.HandleFunc("POST /up/v1/chat/completions", answer)
	mux.HandleFunc("GET /up/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"shout-1","context_length":8192,"pricing":{"prompt":"0.000001","completion":"0.000002"}}]}`)
	})
	v := &vendor{server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, url: "http://" + l.Addr().String()}
	go func() { _ = v.server.Serve(l) }()
	return v, nil
}

func (v *vendor) close() { _ = v.server.Close() }

// answer streams the user's words in capitals, a word at a time.
func answer(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Messages) == 0 {
		http.Error(w, `{"error":{"message":"no messages"}}`, http.StatusBadRequest)
		return
	}
	text := strings.ToUpper(asked.Messages[len(asked.Messages)-1].Content)
	w.Header().Set("Content-Type", "text/event-stream")
	for _, word := range strings.SplitAfter(text, " ") {
		part, _ := json.Marshal(word) // a string always marshals
		fmt.Fprintf(w, "data: {\"model\":\"shout-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%s}}]}\n\n", part)
	}
	fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
	fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\n", len(text), len(text))
	fmt.Fprint(w, "data: [DONE]\n\n")
}
