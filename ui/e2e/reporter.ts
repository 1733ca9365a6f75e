import { appendFileSync } from 'node:fs'
import { stripVTControlCharacters } from 'node:util'
import type { Reporter, TestCase, TestResult } from '@playwright/test/reporter'

const pipe = process.env.GATEWAY_REPORT

/**
 * Tells test/e2e, line by line, which test begins, how it ended after how many tries, and what was wrong at the first. Without a pipe to write to
 * there is nobody to tell.
 */
export default class implements Reporter {
  /** Tests that have begun and not ended, with what was wrong so far. */
  private readonly open = new Map<string, string>()

  onTestBegin(test: TestCase, { retry }: TestResult) {
    if (retry > 0) return
    this.open.set(test.id, '')
    this.tell(test)
  }

  onTestEnd(test: TestCase, { errors, retry }: TestResult) {
    const before = this.open.get(test.id)
    if (before === undefined) return // repeated for the sake of a later one
    const wrong =
      before || errors.map(({ message, snippet }) => [message, snippet].filter(Boolean).join('\n')).join('\n')
    if (!test.ok() && retry < test.retries) {
      this.open.set(test.id, wrong || 'nothing')
      return
    }
    this.open.delete(test.id)
    this.tell(test, test.outcome(), retry + 1, wrong)
  }

  private tell(test: TestCase, outcome = '', tries = 0, wrong = '') {
    const name = test.titlePath().slice(2).join(': ')
    const line = JSON.stringify({ name, outcome, tries, wrong: stripVTControlCharacters(wrong) })
    if (pipe) appendFileSync(pipe, `${line}\n`)
  }
}
