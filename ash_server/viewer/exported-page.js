import { showExportedSession } from "./session/exported-session.js";

showExportedSession();
