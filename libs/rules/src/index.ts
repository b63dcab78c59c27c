export { RuleTests } from './rule-tests.js';
