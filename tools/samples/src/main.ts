/**
 * All samples of the tour in one process, for `npm start`: each listens on the port of its own variable
 * (`SAMPLE_API_PORT`, `SAMPLE_MCP_PORT`, `SAMPLE_MODEL_PORT`). Every file also runs alone.
 */
import './sample-api.js';
import './mcp-server.js';
import './model-server.js';
