// Package raindropgorm fills fields of GORM models with IDs of a Raindrop service, and stores
// textual IDs as numbers.
//
// A field names its code in its tag: `gorm:"primaryKey;autoIncrement:false;raindrop:order"`.
package raindropgorm

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	raindrop "git.example.org/raindrop/clients/go"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

const codeTag = "RAINDROP"

// Plugin fills each tagged field that is zero when a row is created. Integers of 64 bits and
// [sql.NullInt64] get the number of an ID, strings its text, which includes the prefix of the code.
// [16]byte and types defined as it, such as those of the usual UUID packages, get a UUID of version 7,
// and so do strings with `type:uuid`, as text. Other types are refused. Create it with [New].
type Plugin struct {
	client *raindrop.Client
}

// New returns a plug-in for [gorm.DB.Use] that draws IDs from the client. It does not close the
// client.
func New(client *raindrop.Client) *Plugin { return &Plugin{client} }

// Name returns the name under which GORM knows the plug-in.
func (p *Plugin) Name() string { return "raindrop" }

// Initialize adds a callback that runs before all others of Create: hooks of the model see the IDs,
// and the transaction that Create opens itself does not wait for them. A transaction that is open
// already does, as for associations, CreateInBatches and [gorm.DB.Transaction].
func (p *Plugin) Initialize(db *gorm.DB) error {
	return db.Callback().Create().Before("*").Register("raindrop:fill", p.fill)
}

func (p *Plugin) fill(db *gorm.DB) {
	if db.Error != nil || db.Statement.Schema == nil {
		return
	}
	for _, field := range db.Statement.Schema.Fields {
		if code, tagged := field.TagSettings[codeTag]; tagged && db.Error == nil {
			db.AddError(p.fillField(db.Statement, field, code))
		}
	}
}

// fillField draws the IDs of all rows at once.
func (p *Plugin) fillField(stmt *gorm.Statement, field *schema.Field, code string) error {
	switch {
	case code == codeTag: // what GORM has for a tag without a value
		return fmt.Errorf("raindrop: the tag of %s names no code: write raindrop:CODE", place(field))
	case !holdsID(field.IndirectFieldType) && !holdsUUID(field.IndirectFieldType):
		return fmt.Errorf("raindrop: %s is of type %s, which cannot hold every ID: use int64, uint64, string, "+
			"sql.NullInt64, a UUID of [16]byte or a pointer to one of them", place(field), field.FieldType)
	case field.AutoIncrement:
		// The database would continue from the largest ID, with numbers that the service issues later.
		return fmt.Errorf("raindrop: %s needs autoIncrement:false in its tag", place(field))
	}
	setters, text, err := emptyFields(stmt, field)
	if err != nil || len(setters) == 0 {
		return err
	}
	switch {
	case holdsUUID(field.IndirectFieldType) || text && strings.EqualFold(string(field.DataType), "uuid"):
		return setAll(stmt.Context, p.uuidsFor(field.IndirectFieldType), code, setters)
	case text:
		return setAll(stmt.Context, p.client.NextTextMany, code, setters)
	}
	return setAll(stmt.Context, p.client.NextMany, code, setters)
}

// uuidsFor returns a function that draws UUIDs as values of a type.
func (p *Plugin) uuidsFor(t reflect.Type) func(context.Context, string, int) ([]any, error) {
	return func(ctx context.Context, code string, n int) ([]any, error) {
		uuids, err := p.client.NextUUIDMany(ctx, code, n)
		values := make([]any, len(uuids))
		for i, u := range uuids {
			if t.Kind() == reflect.String {
				values[i] = fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
			} else {
				values[i] = reflect.ValueOf(u).Convert(t).Interface()
			}
		}
		return values, err
	}
}

// holdsUUID reports whether a type is [16]byte or defined as it. An array of a byte type of its own
// is not: Go does not convert to it.
func holdsUUID(t reflect.Type) bool {
	return t.Kind() == reflect.Array && reflect.TypeFor[[16]byte]().ConvertibleTo(t)
}

// holdsID reports whether a type holds every ID whole. GORM would cut or round it to fit any number.
func holdsID(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int64, reflect.Uint64, reflect.String:
		return true
	case reflect.Int, reflect.Uint:
		return strconv.IntSize == 64
	}
	return t == reflect.TypeFor[sql.NullInt64]()
}

type setter func(id any) error

// emptyFields returns how to set the field in each row where it is zero, and whether to texts.
func emptyFields(stmt *gorm.Statement, field *schema.Field) (setters []setter, text bool, err error) {
	text = field.IndirectFieldType.Kind() == reflect.String
	if rows, ok := mapsOf(stmt.Dest); ok {
		for _, row := range rows {
			if row == nil {
				return nil, text, fmt.Errorf("raindrop: %w: Create needs a map that is not nil to set %s", gorm.ErrInvalidData, place(field))
			}
			if empty(row[field.Name]) && empty(row[field.DBName]) {
				setters = append(setters, func(id any) error {
					delete(row, field.Name)
					row[field.DBName] = id
					return nil
				})
			}
		}
		// GORM stores what is in a map without its serializer.
		return setters, text && field.Serializer == nil, nil
	}
	for _, row := range rowsOf(stmt.ReflectValue) {
		// GORM itself refuses what is no struct.
		if row = reflect.Indirect(row); row.Kind() != reflect.Struct {
			continue
		}
		if _, zero := field.ValueOf(stmt.Context, row); zero {
			if !row.CanSet() {
				return nil, text, fmt.Errorf("raindrop: %w: Create needs a pointer to set %s", gorm.ErrInvalidValue, place(field))
			}
			setters = append(setters, func(id any) error { return field.Set(stmt.Context, row, id) })
		}
	}
	return setters, text, nil
}

func setAll[T any](ctx context.Context, draw func(context.Context, string, int) ([]T, error), code string, setters []setter) error {
	ids, err := draw(ctx, code, len(setters))
	if err != nil {
		return err
	}
	for i, set := range setters {
		if err := set(ids[i]); err != nil {
			return err
		}
	}
	return nil
}

func mapsOf(dest any) ([]map[string]any, bool) {
	switch rows := dest.(type) {
	case map[string]any:
		return []map[string]any{rows}, true
	case *map[string]any:
		return []map[string]any{*rows}, true
	case []map[string]any:
		return rows, true
	case *[]map[string]any:
		return *rows, true
	}
	return nil, false
}

func rowsOf(value reflect.Value) (rows []reflect.Value) {
	if value.Kind() != reflect.Slice && value.Kind() != reflect.Array {
		return []reflect.Value{value}
	}
	for i := range value.Len() {
		rows = append(rows, value.Index(i))
	}
	return rows
}

func empty(value any) bool { return value == nil || reflect.ValueOf(value).IsZero() }

func place(field *schema.Field) string { return field.Schema.Name + "." + field.Name }
