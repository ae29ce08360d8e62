/** Names of the generated types: `ash.d.ts` is written from the OpenAPI document. */

import type { components, operations } from "./ash.js";

export type { components, operations, paths } from "./ash.js";

type Schemas = components["schemas"];
type Query<Id extends keyof operations> = NonNullable<operations[Id]["parameters"]["query"]>;

/** The generated types require fields that have a default in the API. */
type WithDefaults<T, Required extends keyof T> = Pick<T, Required> & Partial<T>;

export type Metadata = Record<string, unknown>;

export type AppendedMessage = Schemas["AppendedMessage"];
export type ChatEvent = Schemas["ChatEvent"];
export type Health = Schemas["Health"];
export type KnownEvent = Schemas["KnownEvent"];
export type Message = Schemas["Message"];
export type MessageContent = Schemas["MessageContent"];
export type Problem = Schemas["Problem"];
export type SearchResult = Schemas["SearchResult"];
export type Session = Schemas["Session"];

export type EventPage = Schemas["EventPage"];
export type MessagePage = Schemas["MessagePage"];
export type SearchPage = Schemas["SearchPage"];
export type SessionPage = Schemas["SessionPage"];

export type NewMessage = WithDefaults<Schemas["NewMessage"], "content">;
export type NewEvent = Schemas["NewEvent"];
export type NewSession = Partial<Omit<Schemas["NewSession"], "metadata">> & { metadata?: Metadata | null };
export type SessionUpdate = { title?: string | null; metadata?: Metadata };

export type EventQuery = Omit<Query<"listEvents">, "after"> & { after?: number };
export type MessageQuery = Query<"listMessages">;
export type SearchQuery = Omit<Query<"search">, "q">;
export type SessionQuery = Query<"listSessions">;
export type ExportFormat = NonNullable<Query<"exportSession">["format"]>;
