import robotsParser from 'robots-parser';

/** The package is CommonJS; its types claim a `default` that is not there at run time. */
const parseRobots = robotsParser as unknown as typeof robotsParser.default;

/**
 * Whether the rules of a robots.txt file allow a robot to fetch a page. The time is rules × URL, and both come from others:
 * large ones are read in a child process.
 * @param address where the file was found
 */
export function isAllowedByRobots(rules: string, address: string, robot: string, url: string): boolean {
  return parseRobots(address, rules).isAllowed(url, robot) !== false;
}
