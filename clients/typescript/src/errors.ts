import type { Problem } from "./types.js";

/** A request that the server refused, or did not answer. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** The code of the problem, such as `session_not_found`; `no_answer`, `not_ash` and `other_version` have no problem. */
  readonly code: string;
  readonly detail: string;
  /** The HTTP status, if there was an answer. */
  readonly status: number | undefined;
  readonly problem: Partial<Problem>;
  /** False if the request cannot have reached the server. */
  readonly wasSent: boolean;
  /** Seconds to wait, if the server names them. */
  readonly retryAfter: number | undefined;

  constructor(code: string, detail: string, more: ErrorDetails = {}) {
    super(more.message ?? detail, { cause: more.cause });
    this.code = code;
    this.detail = detail;
    this.status = more.status;
    this.problem = more.problem ?? {};
    this.wasSent = more.wasSent ?? true;
    this.retryAfter = more.retryAfter;
  }

  /** The position in the batch of the message or event that was refused. */
  get index(): number | undefined {
    return this.problem.index;
  }
}

export interface ErrorDetails {
  message?: string;
  status?: number;
  problem?: Partial<Problem>;
  wasSent?: boolean;
  retryAfter?: number | undefined;
  cause?: unknown;
}

export function notAsh(more: ErrorDetails = {}): ApiError {
  return new ApiError("not_ash", "The server at this address is not Ash.", more);
}

/** Return the error of an answer with an error status. One without a problem document may come from a proxy. */
export function answerError(status: number, headers: Headers, body: string): ApiError {
  const problem = parseProblem(body);
  const retryAfter = seconds(headers);
  if (problem === undefined) return notAsh({ status, retryAfter });
  const detail = problem.detail || problem.title || `status ${status}`;
  return new ApiError(problem.code, detail, { status, problem, retryAfter });
}

function parseProblem(body: string): (Partial<Problem> & { code: string }) | undefined {
  try {
    const problem = JSON.parse(body);
    return typeof problem?.code === "string" ? problem : undefined;
  } catch {
    return undefined;
  }
}

/** Return the seconds of `Retry-After`; its other form, a date, is ignored. */
function seconds(headers: Headers): number | undefined {
  const value = headers.get("Retry-After") ?? "";
  return /^\d+$/.test(value) ? Number(value) : undefined;
}
