/**
 * All samples of the tour in one process, for `npm start`: each listens on the port of its own variable
 * (`SAMPLE_API_PORT`, `SAMPLE_MCP_PORT`, `SAMPLE_MODEL_PORT`). Every file also runs alone.
 */
import './sample-api.js';
import './mcp-server.js';
import './model-server.js';

// Started by the local runner or a test, the samples must not outlive their parent. When the parent ended while this process was
// loading, 'disconnect' was emitted before anything listened, and only `connected` tells.
if (process.connected) process.on('disconnect', () => process.exit(0));
else if (process.send) process.exit(0);
