.PHONY: test race vet wine examples bench stress crash api ci

test:
	go test ./...

race:
	go test -race -timeout 40m ./internal/loop ./session ./store ./sandbox ./workspace ./trace ./provider/...

vet:
	go vet ./...
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./...

wine:
	WINEDEBUG=-all GOOS=windows GOARCH=amd64 go test -exec wine ./sandbox ./sandbox/proxy ./sandbox/scrub

examples:
	for example in examples/*/; do go run ./$$example || exit 1; done

bench:
	go test -run '^$$' -bench . -benchmem ./bench/... ./store ./provider/... ./sandbox/...

stress:
	IO_HARNESS_SANDBOX_STARTS=1000 go test -race -count=1 -run ManyStartsLeaveNothing -v ./sandbox

crash:
	go run ./internal/testkit/crash -kills 200

api:
	go test -run ExportedSurface -update .

ci:
	bash .ci/run
