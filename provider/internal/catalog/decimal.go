package catalog

import (
	"math/big"
	"strconv"
	"strings"
)

// maxExponent bounds the digits that an exponent may ask for.
const maxExponent = 64

// scaled reads a decimal text and moves its point places to the right, rounding
// half-up at what becomes the last digit. It is false for what is no
// non-negative number or does not fit.
func scaled(text string, places int) (int64, bool) {
	text = strings.TrimSpace(text)
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		n, err := strconv.Atoi(text[i+1:])
		if err != nil || n < -maxExponent || n > maxExponent {
			return 0, false
		}
		mantissa, exponent = text[:i], n
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "+"), ".")
	digits := whole + fraction
	if digits == "" || len(digits) > 2*maxExponent || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	value, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		return 0, false
	}
	ten := big.NewInt(10)
	switch shift := places + exponent - len(fraction); {
	case shift >= 0:
		value.Mul(value, new(big.Int).Exp(ten, big.NewInt(int64(shift)), nil))
	default:
		unit := new(big.Int).Exp(ten, big.NewInt(int64(-shift)), nil)
		half := new(big.Int).Rsh(unit, 1) // a power of ten is even
		value.Add(value, half).Quo(value, unit)
	}
	if !value.IsInt64() {
		return 0, false
	}
	return value.Int64(), true
}
