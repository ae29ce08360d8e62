CREATE TABLE "conversations" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "model" TEXT
);
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
, "resolved_model" TEXT, "reasoning" TEXT);
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
','2026-11-29 18:13:12','/tmp/tides/tools.py');
CREATE TABLE "prompt_fragments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "fragment_id", "order")
);
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
CREATE TABLE "tool_results" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "output" TEXT,
   "tool_call_id" TEXT,
   "instance_id" INTEGER REFERENCES "tool_instances"("id")
, "exception" TEXT);
CREATE TABLE "messages" (
   "hash" TEXT PRIMARY KEY,
   "parent_hash" TEXT REFERENCES "messages"("hash"),
   "role" TEXT,
   "provider_metadata" TEXT
);
INSERT INTO "messages" VALUES('b2:074dea0bd0259e0d5dca16426a45e4f5',NULL,'system',NULL);
INSERT INTO "messages" VALUES('b2:146657fb287f00b3f81e4859775e6c74','b2:074dea0bd0259e0d5dca16426a45e4f5','user',NULL);
INSERT INTO "messages" VALUES('b2:90b8863e88ab568a203b0cf7a2c0c5cb','b2:146657fb287f00b3f81e4859775e6c74','assistant',NULL);
INSERT INTO "messages" VALUES('b2:337e823ab501b8e8598483903eab17a8','b2:90b8863e88ab568a203b0cf7a2c0c5cb','tool',NULL);
INSERT INTO "messages" VALUES('b2:c920871656107f7c0ea87490e521b80d','b2:337e823ab501b8e8598483903eab17a8','assistant',NULL);
INSERT INTO "messages" VALUES('b2:f5f7645e5f8a06f9155124e86f076291','b2:c920871656107f7c0ea87490e521b80d','user',NULL);
INSERT INTO "messages" VALUES('b2:a4106188a0834d86d8a12c5b0682a2fa','b2:f5f7645e5f8a06f9155124e86f076291','assistant',NULL);
INSERT INTO "messages" VALUES('b2:dd6b6845bef33aa0dee37ab9e8a28bf0',NULL,'user',NULL);
INSERT INTO "messages" VALUES('b2:b65c98571e1bf5ed725b2ef57311955f','b2:dd6b6845bef33aa0dee37ab9e8a28bf0','assistant',NULL);
INSERT INTO "messages" VALUES('b2:13e24051c18cb2c9c4d4f0023f59e338',NULL,'user',NULL);
INSERT INTO "messages" VALUES('b2:7987cbe9dffd53ef93c07210fc4c12be','b2:13e24051c18cb2c9c4d4f0023f59e338','assistant',NULL);
INSERT INTO "messages" VALUES('b2:3461b5dd25006c4243d17f1b8512caf5',NULL,'user',NULL);
INSERT INTO "messages" VALUES('b2:b0974faf1ce5692316f32e260b857102','b2:3461b5dd25006c4243d17f1b8512caf5','assistant',NULL);
INSERT INTO "messages" VALUES('b2:c3ce73eb1d55ebbf11198d92d2676b5e','b2:b0974faf1ce5692316f32e260b857102','tool',NULL);
INSERT INTO "messages" VALUES('b2:546953579531376b3515e1af308ad778','b2:c3ce73eb1d55ebbf11198d92d2676b5e','assistant',NULL);
CREATE TABLE "parts" (
   "id" INTEGER PRIMARY KEY,
   "message_hash" TEXT REFERENCES "messages"("hash"),
   "position" INTEGER,
   "type" TEXT,
   "tool_name" TEXT,
   "text" TEXT,
   "payload" TEXT
);
INSERT INTO "parts" VALUES(1,'b2:074dea0bd0259e0d5dca16426a45e4f5',0,'text',NULL,'Be brief.',NULL);
INSERT INTO "parts" VALUES(2,'b2:146657fb287f00b3f81e4859775e6c74',0,'text',NULL,'How high is the water in Bergen at six?',NULL);
INSERT INTO "parts" VALUES(3,'b2:90b8863e88ab568a203b0cf7a2c0c5cb',0,'text',NULL,'I look at the gauge.',NULL);
INSERT INTO "parts" VALUES(4,'b2:90b8863e88ab568a203b0cf7a2c0c5cb',1,'tool_call','tide_at',NULL,'{"name": "tide_at", "arguments": {"port": "Bergen", "hour": 6}, "tool_call_id": "call_1_0"}');
INSERT INTO "parts" VALUES(5,'b2:337e823ab501b8e8598483903eab17a8',0,'tool_result','tide_at',NULL,'{"name": "tide_at", "output": "9 dm", "tool_call_id": "call_1_0"}');
INSERT INTO "parts" VALUES(6,'b2:c920871656107f7c0ea87490e521b80d',0,'text',NULL,'In Bergen the water stands at 9 dm at six.',NULL);
INSERT INTO "parts" VALUES(7,'b2:f5f7645e5f8a06f9155124e86f076291',0,'text',NULL,'Thanks',NULL);
INSERT INTO "parts" VALUES(8,'b2:a4106188a0834d86d8a12c5b0682a2fa',0,'reasoning',NULL,'','{"redacted": true}');
INSERT INTO "parts" VALUES(9,'b2:a4106188a0834d86d8a12c5b0682a2fa',1,'text',NULL,'You are welcome.',NULL);
INSERT INTO "parts" VALUES(10,'b2:dd6b6845bef33aa0dee37ab9e8a28bf0',0,'text',NULL,NULL,'{"text_ref": [{"fragment": 1}, {"literal": "\nWhen is high water?"}]}');
INSERT INTO "parts" VALUES(11,'b2:b65c98571e1bf5ed725b2ef57311955f',0,'text',NULL,'It is high at noon.',NULL);
INSERT INTO "parts" VALUES(12,'b2:13e24051c18cb2c9c4d4f0023f59e338',0,'text',NULL,'What is this?',NULL);
INSERT INTO "parts" VALUES(13,'b2:13e24051c18cb2c9c4d4f0023f59e338',1,'attachment',NULL,NULL,'{"attachment": {"id": "eaa4a94ea300e0d2c775968cbe42f0b5b51ceafdeb73d64e9efddf6d4e880865"}}');
INSERT INTO "parts" VALUES(14,'b2:7987cbe9dffd53ef93c07210fc4c12be',0,'text',NULL,'A picture of a boat.',NULL);
INSERT INTO "parts" VALUES(15,'b2:3461b5dd25006c4243d17f1b8512caf5',0,'text',NULL,'How high in Nowhere?',NULL);
INSERT INTO "parts" VALUES(16,'b2:b0974faf1ce5692316f32e260b857102',0,'tool_call','tide_at',NULL,'{"name": "tide_at", "arguments": {"port": "Nowhere", "hour": 6}, "tool_call_id": "call_6_0"}');
INSERT INTO "parts" VALUES(17,'b2:b0974faf1ce5692316f32e260b857102',1,'tool_call','llm_version',NULL,'{"name": "llm_version", "arguments": {}, "tool_call_id": "call_6_1"}');
INSERT INTO "parts" VALUES(18,'b2:c3ce73eb1d55ebbf11198d92d2676b5e',0,'tool_result','tide_at',NULL,'{"name": "tide_at", "output": "Error: no gauge in Nowhere", "tool_call_id": "call_6_0", "exception": "ValueError: no gauge in Nowhere"}');
INSERT INTO "parts" VALUES(19,'b2:c3ce73eb1d55ebbf11198d92d2676b5e',1,'tool_result','llm_version',NULL,'{"name": "llm_version", "output": "0.36", "tool_call_id": "call_6_1"}');
INSERT INTO "parts" VALUES(20,'b2:546953579531376b3515e1af308ad778',0,'text',NULL,'There is no gauge there.',NULL);
CREATE TABLE "part_attachments" (
   "part_id" INTEGER REFERENCES "parts"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("part_id", "attachment_id", "order")
);
INSERT INTO "part_attachments" VALUES(13,'eaa4a94ea300e0d2c775968cbe42f0b5b51ceafdeb73d64e9efddf6d4e880865',0);
CREATE TABLE "part_fragments" (
   "part_id" INTEGER REFERENCES "parts"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("part_id", "fragment_id", "order")
);
INSERT INTO "part_fragments" VALUES(10,1,0);
CREATE TABLE "threads" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "tip_message_hash" TEXT REFERENCES "messages"("hash"),
   "forked_from" TEXT REFERENCES "threads"("id"),
   "datetime_utc" TEXT
);
INSERT INTO "threads" VALUES('01m8m85e96egawepe3t61p7yyy','How high is the water in Bergen…','b2:a4106188a0834d86d8a12c5b0682a2fa',NULL,'2026-11-29 18:13:05.935482+00:00');
INSERT INTO "threads" VALUES('01m8m85mtxsmkg65v93wrvjj1z','def tide_at(port: str, hour: in…','b2:b65c98571e1bf5ed725b2ef57311955f',NULL,'2026-11-29 18:13:12.251273+00:00');
INSERT INTO "threads" VALUES('01m8m85qp4s792ts4zf0h4de0h','What is this?','b2:7987cbe9dffd53ef93c07210fc4c12be',NULL,'2026-11-29 18:13:15.241730+00:00');
INSERT INTO "threads" VALUES('01m8m85t2fy6bwz33btb6ztype','How high in Nowhere?','b2:546953579531376b3515e1af308ad778',NULL,'2026-11-29 18:13:17.793615+00:00');
CREATE TABLE "turns" (
   "id" TEXT PRIMARY KEY,
   "thread_id" TEXT REFERENCES "threads"("id"),
   "parent_message_hash" TEXT REFERENCES "messages"("hash"),
   "tip_message_hash" TEXT REFERENCES "messages"("hash"),
   "model" TEXT,
   "resolved_model" TEXT,
   "options_json" TEXT,
   "schema_id" TEXT REFERENCES "schemas"("id"),
   "input_tokens" INTEGER,
   "output_tokens" INTEGER,
   "token_details" TEXT,
   "duration_ms" INTEGER,
   "datetime_utc" TEXT
, "response_json" TEXT);
INSERT INTO "turns" VALUES('01m8m85e999x2pgzhjvdjkk30n','01m8m85e96egawepe3t61p7yyy','b2:146657fb287f00b3f81e4859775e6c74','b2:90b8863e88ab568a203b0cf7a2c0c5cb','mock',NULL,NULL,NULL,1201,41,'{"prompt_tokens_details": {"cached_tokens": 1000}}',392,'2026-11-29T18:13:05.449813+00:00','{"content": "I look at the gauge.", "finish_reason": "tool_calls", "usage": {"completion_tokens": 41, "prompt_tokens": 1201, "total_tokens": 1242, "completion_tokens_details": {"reasoning_tokens": 0}, "prompt_tokens_details": {"cached_tokens": 1000}}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "mock-model", "created": 1790000001}');
INSERT INTO "turns" VALUES('01m8m85enjrv460w0x80avn56f','01m8m85e96egawepe3t61p7yyy','b2:337e823ab501b8e8598483903eab17a8','b2:c920871656107f7c0ea87490e521b80d','mock',NULL,NULL,NULL,1202,42,'{"prompt_tokens_details": {"cached_tokens": 1000}}',91,'2026-11-29T18:13:05.842893+00:00','{"content": "In Bergen the water stands at 9 dm at six.", "finish_reason": "stop", "usage": {"completion_tokens": 42, "prompt_tokens": 1202, "total_tokens": 1244, "completion_tokens_details": {"reasoning_tokens": 0}, "prompt_tokens_details": {"cached_tokens": 1000}}, "id": "chatcmpl-2", "object": "chat.completion.chunk", "model": "mock-model", "created": 1790000002}');
INSERT INTO "turns" VALUES('01m8m85j4tm1m7h9xdzxq6z16n','01m8m85e96egawepe3t61p7yyy','b2:f5f7645e5f8a06f9155124e86f076291','b2:a4106188a0834d86d8a12c5b0682a2fa','mock',NULL,NULL,NULL,1203,43,'{"completion_tokens_details": {"reasoning_tokens": 5}, "prompt_tokens_details": {"cached_tokens": 1000}}',348,'2026-11-29T18:13:09.402639+00:00','{"content": "You are welcome.", "finish_reason": "stop", "usage": {"completion_tokens": 43, "prompt_tokens": 1203, "total_tokens": 1246, "completion_tokens_details": {"reasoning_tokens": 5}, "prompt_tokens_details": {"cached_tokens": 1000}}, "id": "chatcmpl-3", "object": "chat.completion.chunk", "model": "mock-model", "created": 1790000003}');
INSERT INTO "turns" VALUES('01m8m85mtztsd2e8p94802k33g','01m8m85mtxsmkg65v93wrvjj1z','b2:dd6b6845bef33aa0dee37ab9e8a28bf0','b2:b65c98571e1bf5ed725b2ef57311955f','mock',NULL,'{"temperature": 0.2}',NULL,1204,44,'{"prompt_tokens_details": {"cached_tokens": 1000}}',90,'2026-11-29T18:13:12.159999+00:00','{"id": "chatcmpl-4", "choices": [{"finish_reason": "stop", "index": 0, "message": {"content": "It is high at noon.", "role": "assistant"}}], "created": 1790000004, "model": "mock-model", "object": "chat.completion", "usage": {"completion_tokens": 44, "prompt_tokens": 1204, "total_tokens": 1248, "completion_tokens_details": {"reasoning_tokens": 0}, "prompt_tokens_details": {"cached_tokens": 1000}}}');
INSERT INTO "turns" VALUES('01m8m85qp6gdp5qz6nbb56rs8d','01m8m85qp4s792ts4zf0h4de0h','b2:13e24051c18cb2c9c4d4f0023f59e338','b2:7987cbe9dffd53ef93c07210fc4c12be','mock',NULL,NULL,NULL,1205,45,'{"prompt_tokens_details": {"cached_tokens": 1000}}',162,'2026-11-29T18:13:15.078356+00:00','{"content": "A picture of a boat.", "finish_reason": "stop", "usage": {"completion_tokens": 45, "prompt_tokens": 1205, "total_tokens": 1250, "completion_tokens_details": {"reasoning_tokens": 0}, "prompt_tokens_details": {"cached_tokens": 1000}}, "id": "chatcmpl-5", "object": "chat.completion.chunk", "model": "mock-model", "created": 1790000005}');
INSERT INTO "turns" VALUES('01m8m85t2p4k4fkjsttvz0p0ev','01m8m85t2fy6bwz33btb6ztype','b2:3461b5dd25006c4243d17f1b8512caf5','b2:b0974faf1ce5692316f32e260b857102','mock',NULL,NULL,NULL,1206,46,'{"prompt_tokens_details": {"cached_tokens": 1000}}',201,'2026-11-29T18:13:17.526407+00:00','{"content": "", "finish_reason": "tool_calls", "usage": {"completion_tokens": 46, "prompt_tokens": 1206, "total_tokens": 1252, "completion_tokens_details": {"reasoning_tokens": 0}, "prompt_tokens_details": {"cached_tokens": 1000}}, "id": "chatcmpl-6", "object": "chat.completion.chunk", "model": "mock-model", "created": 1790000006}');
INSERT INTO "turns" VALUES('01m8m85t91fh3skk79nmr8t8w2','01m8m85t2fy6bwz33btb6ztype','b2:c3ce73eb1d55ebbf11198d92d2676b5e','b2:546953579531376b3515e1af308ad778','mock',NULL,NULL,NULL,1207,47,'{"prompt_tokens_details": {"cached_tokens": 1000}}',63,'2026-11-29T18:13:17.729604+00:00','{"content": "There is no gauge there.", "finish_reason": "stop", "usage": {"completion_tokens": 47, "prompt_tokens": 1207, "total_tokens": 1254, "completion_tokens_details": {"reasoning_tokens": 0}, "prompt_tokens_details": {"cached_tokens": 1000}}, "id": "chatcmpl-7", "object": "chat.completion.chunk", "model": "mock-model", "created": 1790000007}');
