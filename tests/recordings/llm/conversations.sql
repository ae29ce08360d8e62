CREATE TABLE "conversations" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "model" TEXT
);
INSERT INTO "conversations" VALUES('01m8m885v40wm9tetf73x4td7h','How high is the water in Bergen…','mock');
INSERT INTO "conversations" VALUES('01m8m88dmg521n1qnbqsv458zc','def tide_at(port: str, hour: in…','mock');
INSERT INTO "conversations" VALUES('01m8m88hqr4nedeasg653k3mx6','What is this?','mock');
INSERT INTO "conversations" VALUES('01m8m88myr8xdcyz2jngx7m8wv','How high in Nowhere?','mock');
CREATE TABLE "attachments" (
   "id" TEXT PRIMARY KEY,
   "type" TEXT,
   "path" TEXT,
   "url" TEXT,
   "content" BLOB
);
INSERT INTO "attachments" VALUES('eaa4a94ea300e0d2c775968cbe42f0b5b51ceafdeb73d64e9efddf6d4e880865','image/png','/tmp/tides/boat.png',NULL,NULL);
CREATE TABLE "prompt_attachments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "attachment_id")
);
INSERT INTO "prompt_attachments" VALUES('01m8m88hb8x4qayesmkehzq65y','eaa4a94ea300e0d2c775968cbe42f0b5b51ceafdeb73d64e9efddf6d4e880865',0);
CREATE TABLE "schemas" (
   "id" TEXT PRIMARY KEY,
   "content" TEXT
);
CREATE TABLE "responses" (
   "id" TEXT PRIMARY KEY,
   "model" TEXT,
   "prompt" TEXT,
   "system" TEXT,
   "prompt_json" TEXT,
   "options_json" TEXT,
   "response" TEXT,
   "response_json" TEXT,
   "conversation_id" TEXT REFERENCES "conversations"("id"),
   "duration_ms" INTEGER,
   "datetime_utc" TEXT,
   "input_tokens" INTEGER,
   "output_tokens" INTEGER,
   "token_details" TEXT,
   "schema_id" TEXT REFERENCES "schemas"("id")
, "resolved_model" TEXT);
INSERT INTO "responses" VALUES('01m8m885vfhm687qawq8ps55cr','mock','How high is the water in Bergen at six?','Be brief.','{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How high is the water in Bergen at six?"}]}','{}','I look at the gauge.','{"content": {"$": "r:01m8m885vfhm687qawq8ps55cr"}, "finish_reason": "tool_calls", "usage": {"completion_tokens": 41, "prompt_tokens": 1201, "total_tokens": 1242, "completion_tokens_details": {"reasoning_tokens": 0}, "prompt_tokens_details": {"cached_tokens": 1000}}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "mock-model", "created": 1790000001}','01m8m885v40wm9tetf73x4td7h',212,'2026-11-29T18:14:35.119300+00:00',1201,41,'{"prompt_tokens_details": {"cached_tokens": 1000}}',NULL,NULL);
INSERT INTO "responses" VALUES('01m8m88623q850jkg204bvx3kz','mock','',NULL,'{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How high is the water in Bergen at six?"}, {"role": "assistant", "content": "I look at the gauge."}, {"role": "assistant", "tool_calls": [{"type": "function", "id": "call_1_0", "function": {"name": "tide_at", "arguments": "{\"port\": \"Bergen\", \"hour\": 6}"}}]}, {"role": "tool", "tool_call_id": "call_1_0", "content": "9 dm"}]}','{}','In Bergen the water stands at 9 dm at six.','{"content": {"$": "r:01m8m88623q850jkg204bvx3kz"}, "finish_reason": "stop", "usage": {"completion_tokens": 42, "prompt_tokens": 1202, "total_tokens": 1244, "completion_tokens_details": {"reasoning_tokens": 0}, "prompt_tokens_details": {"cached_tokens": 1000}}, "id": "chatcmpl-2", "object": "chat.completion.chunk", "model": "mock-model", "created": 1790000002}','01m8m885v40wm9tetf73x4td7h',65,'2026-11-29T18:14:35.331626+00:00',1202,42,'{"prompt_tokens_details": {"cached_tokens": 1000}}',NULL,NULL);
INSERT INTO "responses" VALUES('01m8m889t7ddgaxdhj6ke9mj9b','mock','Thanks',NULL,'{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How high is the water in Bergen at six?"}, {"role": "assistant", "content": "I look at the gauge."}, {"role": "assistant", "tool_calls": [{"type": "function", "id": "call_1_0", "function": {"name": "tide_at", "arguments": "{\"port\": \"Bergen\", \"hour\": 6}"}}]}, {"role": "tool", "tool_call_id": "call_1_0", "content": "9 dm"}, {"role": "assistant", "content": "In Bergen the water stands at 9 dm at six."}, {"role": "user", "content": "Thanks"}]}','{}','You are welcome.','{"content": {"$": "r:01m8m889t7ddgaxdhj6ke9mj9b"}, "finish_reason": "stop", "usage": {"completion_tokens": 43, "prompt_tokens": 1203, "total_tokens": 1246, "completion_tokens_details": {"reasoning_tokens": 5}, "prompt_tokens_details": {"cached_tokens": 1000}}, "id": "chatcmpl-3", "object": "chat.completion.chunk", "model": "mock-model", "created": 1790000003}','01m8m885v40wm9tetf73x4td7h',250,'2026-11-29T18:14:39.175596+00:00',1203,43,'{"completion_tokens_details": {"reasoning_tokens": 5}, "prompt_tokens_details": {"cached_tokens": 1000}}',NULL,NULL);
INSERT INTO "responses" VALUES('01m8m88daj7wzehh2br99aajye','mock','When is high water?',NULL,'{"messages": [{"role": "user", "content": {"$r": [{"$": "f1"}, "\nWhen is high water?"]}}]}','{"temperature": 0.2}','It is high at noon.','{"id": "chatcmpl-4", "choices": [{"finish_reason": "stop", "index": 0, "message": {"content": {"$": "r:01m8m88daj7wzehh2br99aajye"}, "role": "assistant"}}], "created": 1790000004, "model": "mock-model", "object": "chat.completion", "usage": {"completion_tokens": 44, "prompt_tokens": 1204, "total_tokens": 1248, "completion_tokens_details": {"reasoning_tokens": 0}, "prompt_tokens_details": {"cached_tokens": 1000}}}','01m8m88dmg521n1qnbqsv458zc',318,'2026-11-29T18:14:42.770470+00:00',1204,44,'{"prompt_tokens_details": {"cached_tokens": 1000}}',NULL,NULL);
INSERT INTO "responses" VALUES('01m8m88hb8x4qayesmkehzq65y','mock','What is this?',NULL,'{"messages": [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:..."}}]}]}','{}','A picture of a boat.','{"content": {"$": "r:01m8m88hb8x4qayesmkehzq65y"}, "finish_reason": "stop", "usage": {"completion_tokens": 45, "prompt_tokens": 1205, "total_tokens": 1250, "completion_tokens_details": {"reasoning_tokens": 0}, "prompt_tokens_details": {"cached_tokens": 1000}}, "id": "chatcmpl-5", "object": "chat.completion.chunk", "model": "mock-model", "created": 1790000005}','01m8m88hqr4nedeasg653k3mx6',399,'2026-11-29T18:14:46.888246+00:00',1205,45,'{"prompt_tokens_details": {"cached_tokens": 1000}}',NULL,NULL);
INSERT INTO "responses" VALUES('01m8m88mz7my3gdwcqct7s05s6','mock','How high in Nowhere?',NULL,'{"messages": [{"role": "user", "content": "How high in Nowhere?"}]}','{}','','{"content": "", "finish_reason": "tool_calls", "usage": {"completion_tokens": 46, "prompt_tokens": 1206, "total_tokens": 1252, "completion_tokens_details": {"reasoning_tokens": 0}, "prompt_tokens_details": {"cached_tokens": 1000}}, "id": "chatcmpl-6", "object": "chat.completion.chunk", "model": "mock-model", "created": 1790000006}','01m8m88myr8xdcyz2jngx7m8wv',294,'2026-11-29T18:14:50.599282+00:00',1206,46,'{"prompt_tokens_details": {"cached_tokens": 1000}}',NULL,NULL);
INSERT INTO "responses" VALUES('01m8m88n8qzc66657pxk6vec7b','mock','',NULL,'{"messages": [{"role": "user", "content": "How high in Nowhere?"}, {"role": "assistant", "tool_calls": [{"type": "function", "id": "call_6_0", "function": {"name": "tide_at", "arguments": "{\"port\": \"Nowhere\", \"hour\": 6}"}}, {"type": "function", "id": "call_6_1", "function": {"name": "llm_version", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "call_6_0", "content": "Error: no gauge in Nowhere"}, {"role": "tool", "tool_call_id": "call_6_1", "content": "0.27.1"}]}','{}','There is no gauge there.','{"content": {"$": "r:01m8m88n8qzc66657pxk6vec7b"}, "finish_reason": "stop", "usage": {"completion_tokens": 47, "prompt_tokens": 1207, "total_tokens": 1254, "completion_tokens_details": {"reasoning_tokens": 0}, "prompt_tokens_details": {"cached_tokens": 1000}}, "id": "chatcmpl-7", "object": "chat.completion.chunk", "model": "mock-model", "created": 1790000007}','01m8m88myr8xdcyz2jngx7m8wv',80,'2026-11-29T18:14:50.903318+00:00',1207,47,'{"prompt_tokens_details": {"cached_tokens": 1000}}',NULL,NULL);
CREATE TABLE "fragments" (
   "id" INTEGER PRIMARY KEY,
   "hash" TEXT,
   "content" TEXT,
   "datetime_utc" TEXT,
   "source" TEXT
);
INSERT INTO "fragments" VALUES(1,'4f58d27e093ef1c3e1de4238376c230a229232df1d927a3b6b58ae89e4eef000','def tide_at(port: str, hour: int) -> str:
    "The height of the water in a port."
    if port == "Nowhere":
        raise ValueError("no gauge in Nowhere")
    return "9 dm"
','2026-11-29 18:14:43','/tmp/tides/tools.py');
CREATE TABLE "prompt_fragments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "fragment_id", "order")
);
INSERT INTO "prompt_fragments" VALUES('01m8m88daj7wzehh2br99aajye',1,0);
CREATE TABLE "system_fragments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "fragment_id", "order")
);
CREATE TABLE "tool_calls" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "arguments" TEXT,
   "tool_call_id" TEXT
);
INSERT INTO "tool_calls" VALUES(1,'01m8m885vfhm687qawq8ps55cr',1,'tide_at','{"port": "Bergen", "hour": 6}','call_1_0');
INSERT INTO "tool_calls" VALUES(2,'01m8m88mz7my3gdwcqct7s05s6',1,'tide_at','{"port": "Nowhere", "hour": 6}','call_6_0');
INSERT INTO "tool_calls" VALUES(3,'01m8m88mz7my3gdwcqct7s05s6',2,'llm_version','{}','call_6_1');
CREATE TABLE "tool_results" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "output" TEXT,
   "tool_call_id" TEXT,
   "instance_id" INTEGER REFERENCES "tool_instances"("id")
, "exception" TEXT);
INSERT INTO "tool_results" VALUES(1,'01m8m88623q850jkg204bvx3kz',1,'tide_at','9 dm','call_1_0',NULL,NULL);
INSERT INTO "tool_results" VALUES(2,'01m8m88n8qzc66657pxk6vec7b',1,'tide_at','Error: no gauge in Nowhere','call_6_0',NULL,'ValueError: no gauge in Nowhere');
INSERT INTO "tool_results" VALUES(3,'01m8m88n8qzc66657pxk6vec7b',2,'llm_version','0.27.1','call_6_1',NULL,NULL);
