import { configure } from '@testing-library/react'
import './i18n/i18n'

// A busy machine may take its time: what a test waits for comes, or the test fails later.
configure({ asyncUtilTimeout: 20_000 })
