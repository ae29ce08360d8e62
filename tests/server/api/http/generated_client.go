// A session through a client of `openapi-generator-cli -g go`; prints what it has read.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	ash "github.com/ash/client"
)

func must[T any](value T, _ any, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	ctx, configuration := context.Background(), ash.NewConfiguration()
	configuration.Servers = ash.ServerConfigurations{{URL: os.Args[1]}}
	client := ash.NewAPIClient(configuration)

	fields := ash.NewSessionToCreate()
	fields.SetSource("claude")
	fields.SetMetadata(map[string]any{"team": "a", "limits": map[string]any{"tokens": 5}})
	session := must(client.SessionsAPI.CreateSession(ctx).SessionToCreate(*fields).Execute())

	line := ash.NewMessageToAppend(`{"type":"user","message":{"role":"user","content":"Which tests fail?"}}`)
	line.SetId("m1")
	appended := must(client.MessagesAPI.AppendMessages(ctx, session.Id).MessageToAppend([]ash.MessageToAppend{*line}).Execute())
	start := ash.NewEventToAppend("turn_start", map[string]any{"trigger": "user"})
	must(client.EventsAPI.AppendEvents(ctx, session.Id).EventToAppend([]ash.EventToAppend{*start}).Execute())

	page := must(client.MessagesAPI.ListMessages(ctx, session.Id).Limit(1).Parsed(true).Execute())
	stored := must(client.EventsAPI.ListEvents(ctx, session.Id).Execute())
	_, _, err := client.SessionsAPI.GetSession(ctx, "00000000-0000-4000-8000-000000000000").Execute()
	var refused *ash.GenericOpenAPIError
	errors.As(err, &refused)

	result := map[string]any{"metadata": session.Metadata, "problem": refused.Model().(ash.Problem).Code}
	contents, sequences, isInMilliseconds := []any{}, []any{}, true
	for _, each := range page.Messages {
		contents = append(contents, each.GetContent())
	}
	for _, each := range stored.Events {
		var event struct {
			Sequence, Timestamp int64
			Type                string
			Payload             any
		}
		text, _ := json.Marshal(each)
		_ = json.Unmarshal(text, &event)
		sequences = append(sequences, []any{event.Sequence, event.Type, event.Payload})
		isInMilliseconds = isInMilliseconds && event.Timestamp > 1<<32
	}
	first := appended.Messages[0]
	result["appended"] = []any{[]any{first.Id, first.Sequence, first.Created}}
	result["contents"], result["events"], result["isInMilliseconds"] = contents, sequences, isInMilliseconds
	_ = json.NewEncoder(os.Stdout).Encode(result)
}
