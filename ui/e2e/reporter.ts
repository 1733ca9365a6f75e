import { appendFileSync } from 'node:fs'
import { stripVTControlCharacters } from 'node:util'
import type { Reporter, TestCase, TestResult } from '@playwright/test/reporter'

const pipe = process.env.GATEWAY_REPORT

/** Tells test/e2e, line by line, which test begins, how it ended and what was wrong. Without a pipe to write to there is nobody to tell. */
export default class implements Reporter {
  onTestBegin(test: TestCase) {
    this.tell(test, '', [])
  }

  onTestEnd(test: TestCase, { errors }: TestResult) {
    const wrong = errors.map(({ message, snippet }) => [message, snippet].filter(Boolean).join('\n'))
    this.tell(test, test.outcome(), wrong)
  }

  private tell(test: TestCase, outcome: string, wrong: string[]) {
    const name = test.titlePath().slice(2).join(': ')
    if (pipe)
      appendFileSync(pipe, `${JSON.stringify({ name, outcome, wrong: stripVTControlCharacters(wrong.join('\n')) })}\n`)
  }
}
