import { startService } from '@toolfleet/service';
import { pythonSandboxConfig } from './python-sandbox.config.js';
import { createComponents } from './wiring.js';

await startService(pythonSandboxConfig, createComponents);
