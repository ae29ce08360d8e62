export { API_VERSION, AshClient, type ClientOptions, type FollowOptions } from "./client.js";
export type { ApiRequest } from "./request.js";
export { ApiError } from "./errors.js";
export type { Retry } from "./retry.js";
export type * from "./types.js";
