/** Names of the generated types: `ash.d.ts` is written from the OpenAPI document. */

import type { components, operations } from "./ash.js";

export type { components, operations, paths } from "./ash.js";

type Schemas = components["schemas"];
type Query<Id extends keyof operations> = NonNullable<operations[Id]["parameters"]["query"]>;

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
export type BudgetPage = Schemas["BudgetPage"];
export type UsageReport = Schemas["UsageReport"];
/** What the rows of a report are grouped by. */
export type Dimension = UsageReport["by"][number];
export type SessionChanges = Schemas["SessionChanges"];
export type SessionComparison = Schemas["SessionComparison"];
export type SessionCounts = Schemas["SessionCounts"];
export type FindingList = Schemas["FindingList"];
export type SessionFacts = Schemas["SessionFacts"];
export type SessionResume = Schemas["SessionResume"];
export type SessionPage = Schemas["SessionPage"];
export type ProjectPage = Schemas["ProjectPage"];
export type TagList = Schemas["TagList"];

export type NewMessage = Schemas["MessageToAppend"];
export type NewEvent = Schemas["EventToAppend"];
export type NewSession = Schemas["SessionToCreate"];
export type SessionUpdate = Schemas["SessionPatch"];
export type LabelUpdate = Schemas["LabelPatch"];

export type EventQuery = Omit<Query<"listEvents">, "after"> & { after?: number };
export type MessageQuery = Query<"listMessages">;
export type SearchQuery = Omit<Query<"search">, "q">;
export type UsageQuery = Omit<Query<"getUsage">, "by"> & { by?: readonly Dimension[] };
export type ChangesQuery = NonNullable<Query<"getChanges">>;
export type CountQuery = Query<"countSessions">;
export type ProjectQuery = Query<"listProjects">;
export type SessionQuery = Query<"listSessions">;
export type ExportFormat = NonNullable<Query<"exportSession">["format"]>;
