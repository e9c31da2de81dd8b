package raindropgorm

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"gorm.io/gorm/schema"
)

// Serializer stores a string with the text of an ID as a number, so that Go code and JSON have the
// text, and the column is a BIGINT. Importing this package registers it as `serializer:raindrop`.
// A field whose code has a prefix repeats the prefix: `idPrefix:ORD-`.
type Serializer struct{}

func init() { schema.RegisterSerializer("raindrop", Serializer{}) }

// Value returns the number of the text; nil, which stores NULL, for a nil pointer and an empty
// string. It refuses any other text than that of an ID with the prefix.
func (Serializer) Value(_ context.Context, field *schema.Field, _ reflect.Value, value any) (any, error) {
	text := reflect.ValueOf(value)
	if text.Kind() == reflect.Pointer {
		text = text.Elem()
	}
	if !text.IsValid() {
		return nil, nil
	}
	if text.Kind() != reflect.String {
		return nil, fmt.Errorf("raindrop: %s must be a string for its serializer", place(field))
	}
	if text.Len() == 0 {
		return nil, nil
	}
	prefix := field.TagSettings["IDPREFIX"]
	digits, found := strings.CutPrefix(text.String(), prefix)
	id, err := strconv.ParseInt(digits, 10, 64)
	// One ID has one text: no sign, no leading zeros.
	if !found || err != nil || id < 0 || strconv.FormatInt(id, 10) != digits {
		return nil, fmt.Errorf("raindrop: %s is %q; must be %q and the decimal digits of an ID", place(field), text.String(), prefix)
	}
	return id, nil
}

// Scan sets the field to the text of a number; to its zero value for NULL.
func (Serializer) Scan(ctx context.Context, field *schema.Field, row reflect.Value, value any) error {
	var id int64
	var err error
	switch value := value.(type) {
	case nil:
		field.ReflectValueOf(ctx, row).SetZero()
		return nil
	case int64:
		id = value
	case uint64:
		if id = int64(value); value > math.MaxInt64 {
			id = -1
		}
	case []byte:
		id, err = strconv.ParseInt(string(value), 10, 64)
	case string:
		id, err = strconv.ParseInt(value, 10, 64)
	default:
		err = fmt.Errorf("it is of type %T", value)
	}
	if err != nil || id < 0 {
		return fmt.Errorf("raindrop: the column of %s has %v, which is no ID", place(field), value)
	}
	return field.Set(ctx, row, field.TagSettings["IDPREFIX"]+strconv.FormatInt(id, 10))
}
