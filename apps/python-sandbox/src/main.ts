import { startService } from '@toolfleet/service';
import { pythonSandboxParts } from './parts.js';
import { pythonSandboxConfig } from './python-sandbox.config.js';

await startService(pythonSandboxConfig, pythonSandboxParts);
