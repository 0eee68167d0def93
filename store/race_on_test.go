//go:build race

package store

// raceDetector thins out what is slow under the race detector and not about races.
const raceDetector = true
