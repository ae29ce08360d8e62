/** A request of the API, as a value. */
export interface ApiRequest {
  method: "DELETE" | "GET" | "PATCH" | "POST";
  /** The path, such as `/api/sessions`. */
  path: string;
  query?: object;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as plain text. */
  text?: string;
  /** False if a repetition would have another effect; true by default. */
  isRepeatable?: boolean;
}
